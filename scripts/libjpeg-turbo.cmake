# Of libjpeg-turbo, which the crate turbojpeg-sys compiles whole, only the library that this crate links. Its programs, and
# libjpeg beside it, take as long again. The crate has no setting for that; CMake reads this file before the project's.

# A toolchain file of whoever builds comes first. Other crates' projects stay whole.
if(DEFINED ENV{CMAKE_TOOLCHAIN_FILE})
    include($ENV{CMAKE_TOOLCHAIN_FILE})
endif()
# It is read more than once, and by CMake's small programs that try the compiler.
include_guard(GLOBAL)
if(NOT CMAKE_SOURCE_DIR MATCHES "/libjpeg-turbo$")
    return()
endif()

# A command that is defined anew is still there under its name with an underscore.
macro(add_executable name)
    _add_executable(${name} ${ARGN})
    set_property(TARGET ${name} PROPERTY EXCLUDE_FROM_ALL ON)
endmacro()

macro(add_library name)
    _add_library(${name} ${ARGN})
    if("${name}" MATCHES "^jpeg")
        set_property(TARGET ${name} PROPERTY EXCLUDE_FROM_ALL ON)
    endif()
endmacro()

function(install kind what)
    if(kind STREQUAL "TARGETS" AND what STREQUAL "turbojpeg-static")
        _install(TARGETS ${what} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    elseif(kind STREQUAL "FILES" AND what MATCHES "/turbojpeg\\.h$")
        _install(FILES ${what} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    endif()
endfunction()
